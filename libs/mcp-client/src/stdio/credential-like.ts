/** What a variable or an option that holds a credential is called. */
const credentialName =
  /TOKEN|SECRET|KEY|PASSW|PASSPHRASE|PASSCODE|(^|[_-])(PWD|PASS|PW|PAT|PIN|SID)($|[_-])|CREDENTIAL|AUTH|BEARER|COOKIE|SESSION|JWT|PRIVATE|SIGNATURE|SIGNING|CERT|(^|[_-])DSN($|[_-])|CONNECTION_?STRING|WEBHOOK/i;
/** The working folder of a shell, by exactly this name. */
const folders = ['PWD', 'OLDPWD'];

const credentialValues: readonly RegExp[] = [
  /-----BEGIN [A-Z0-9 ]+-----/,
  // Keys of providers: `sk_live_…`, `sk-proj-…`, `ghp_…`, `xoxb-…`, `AKIA…`, `AIza…`, `glpat-…`, `npm_…`.
  /(^|[^A-Za-z0-9])((sk|pk|rk|whsec)[_-][A-Za-z0-9_-]{8}|gh[a-z]_[A-Za-z0-9]{16}|github_pat_|xox[a-z]-|glpat-|npm_[A-Za-z0-9]{16}|hf_[A-Za-z0-9]{16}|(AKIA|ASIA)[A-Z0-9]{12}|AIza[A-Za-z0-9_-]{20}|ya29\.|SG\.[A-Za-z0-9_-]{16}|dop_v1_|shp[a-z]{2}_|lin_api_|EAAC)/,
  // A JSON web token.
  /eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\./,
  /\b(Bearer|Basic|Token)\s+\S{4}/i,
  // `scheme://user:password@host`, and without a user.
  /[a-z][a-z0-9+.-]*:\/\/[^/?#\s:@]*:[^\s]*@/i,
  // A connection string or a DSN: `user=u password=p`, `user:password@tcp(host)/db`, `?token=t`.
  /(^|[\s;&?,{"'])(password|passwd|pwd|pass|secret|token|(api|access|account|shared)_?(access)?_?key|sig|signature)["']?\s*[=:]\s*["']?[^\s;&]/i,
  /^[^\s:/@]+:[^\s@]+@[a-z]*\(?[^\s()]+\)?[:/]/i,
];

/** Whether something by this name most likely holds a credential. */
export function namesCredential(name: string): boolean {
  return credentialName.test(name) && !folders.includes(name);
}

/** Whether a value holds what has the form of a credential. */
export function isCredentialLike(value: string): boolean {
  return credentialValues.some((form) => form.test(value));
}

const option = /^--?[A-Za-z][\w.-]*$/;
/** A path, a file, a package, an address without a user, a number or a plain word: what messages have to name. */
const plain =
  /^(\.{0,2}|~|@[\w.-]+|[A-Za-z]:)[\\/][\w .@\\/-]*$|^[a-z_][a-z0-9_.-]*(\/[a-z0-9_.-]+)*(@[\w.-]+)?$|^[\w-]+(\.[a-z]{1,5}|)$|^[a-z]+:\/\/[\w.:[\]/-]*$/;
/** A word that a person chose, and not a key: its digits are a version. */
const word = /^[a-z]*(-[a-z]+)*(@[\d.]+)?$/i;

/**
 * The arguments, and the parts of them, that messages do not show: the value of an option and what has the form
 * of a credential. Paths, packages, numbers and plain words stay readable, unless their option names a credential.
 */
export function secretArguments(args: readonly string[]): readonly string[] {
  return args.flatMap((argument, i) => {
    if (option.test(argument)) return [];
    const [, name, value] = /^--?([A-Za-z][\w.-]*)=(.*)$/s.exec(argument) ?? [];
    if (name !== undefined) return secretParts(value!, namesCredential(name));
    const before = args[i - 1] ?? '';
    return secretParts(argument, option.test(before) && namesCredential(before));
  });
}

function secretParts(value: string, isNamed: boolean): readonly string[] {
  const parts = partsOf(value);
  if (isNamed || isCredentialLike(value)) return [value, ...parts];
  const secret = parts.filter((part) => !isPlain(part));
  const isText = isPlain(value) || /\s/.test(value);
  return secret.length === 0 && isText ? [] : [value, ...secret];
}

/** A header, an assignment or a URL holds its secret beside what is none. */
function partsOf(value: string): readonly string[] {
  return value.split(/[\s=;,&?"'@]+|:(?!\d)\/*/).filter((part) => part.length >= 4);
}

function isPlain(text: string): boolean {
  if (isCredentialLike(text)) return false;
  if (option.test(text) || /^[\d.:]+$/.test(text)) return true;
  return plain.test(text) && (/[\\/]/.test(text) || /\.\w{1,5}$/.test(text) || word.test(text));
}
