import { type SettingsSpec } from './settings.js';

/** One line of docs/configuration.md. */
export interface SettingRow {
  readonly variable: string;
  readonly default: string;
  readonly accepts: string;
  readonly about: string;
}

/** The documentation of a spec, in its order. */
export function describeSettings(spec: SettingsSpec): SettingRow[] {
  return Object.values(spec).map(({ variable, about, accepts, defaultText, special, required, secret }) => ({
    variable,
    default: defaultText ?? (required ? 'none, required' : 'none'),
    accepts: secret ? `${accepts}; secret` : accepts,
    about: [about, ...Object.entries(special).map(([word, meaning]) => `\`${word}\`: ${meaning}`)].join('; '),
  }));
}

/** The rows as a Markdown table. */
export function markdownTable(rows: readonly SettingRow[]): string {
  const lines = rows.map((row) => [`\`${row.variable}\``, row.default, row.accepts, row.about]);
  return [['variable', 'default', 'values', 'meaning'], ['---', '---', '---', '---'], ...lines]
    .map((cells) => `| ${cells.map(cell).join(' | ')} |\n`)
    .join('');
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replace(/\s*\n\s*/g, ' ');
}
