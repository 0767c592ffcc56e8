import { connectingSettings, stdioOn } from '@holdfast/connector';
import { workingSettings } from '@holdfast/engine';
import { servingRules, servingSettings } from '@holdfast/gateway';
import { ownStore, readSettings, setting, type Environment, type SettingsOf } from '@holdfast/ops';

export const standaloneSettings = {
  ...servingSettings,
  ...workingSettings,
  ...connectingSettings,
  stdioEnabled: stdioOn,
  store: ownStore,
  auth: setting.listOf('HOLDFAST_AUTH', ['none', 'keys', 'jwt', 'module'], {
    ...about(servingSettings.auth),
    default: ['none'],
  }),
  tools: setting.list('HOLDFAST_TOOLS', {
    about: 'modules whose exports are tools: paths or package names',
    default: ['@holdfast/orders'],
    defaultText: 'the examples',
    special: { off: 'no tools of its own, only those of upstreams' },
  }),
};

function about({ about: text }: { readonly about: string }): { about: string } {
  return { about: text };
}

export type StandaloneSettings = SettingsOf<typeof standaloneSettings>;

/** @throws ConfigError listing every problem */
export function readStandaloneSettings(env: Environment): StandaloneSettings {
  return readSettings(standaloneSettings, env, servingRules);
}
