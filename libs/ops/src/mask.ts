/** Beyond this a text is cut before it is searched, so that a hostile megabyte costs no more than this. */
const SEARCHED = 65_536;
const KEPT = 8_192;

// The lengths are bounded so that no input makes these slower than linear.
// The second form of user-info is a password with an unescaped `/`, `?` or `#`, which people do paste; a
// port followed by a path (`http://host:8000/@scope`) is not one.
const USER_INFO =
  /\b([a-z][a-z0-9+.-]{0,20}:\/\/)(?:[^\s/?#]{0,512}@|[^\s/?#@:]{0,128}:(?!\d{1,5}[/?#])[^\s"'<>]{0,512}@)/gi;
const BEARER = /\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}/gi;
const ASSIGNED =
  /\b((?:password|passwd|secret|client_secret|token|access_token|refresh_token|api[_-]?key)=)[^&\s"',;]+/gi;

/** A header or a member that is named as a credential, and `key=` with a value that is long enough for one. */
const NAMED =
  /\b((?:(?:proxy-)?authorization|x-api-key|api[_-]?key|access[_-]?token|client[_-]?secret|password)["']?\s{0,4}[:=]\s{0,4}["']?|key=)(?!(?:bearer|basic)\s|\*)[^\s"'&,;]{8,}/gi;

/**
 * Replaces what looks like a credential inside a text by `***`: user-info of a URL, a bearer or basic
 * credential, and `password=`-like assignments. Texts above 8,192 characters are cut, with a marker.
 *
 * This is the last line of defence for messages of libraries; our own messages carry no secrets to begin with.
 */
export function maskSecrets(text: string): string {
  const masked = maskForms(text.slice(0, SEARCHED));
  return masked.length > KEPT ? `${masked.slice(0, KEPT)}… [cut, ${text.length} characters]` : masked;
}

/** The same for a text that somebody else has bounded: nothing is cut. */
export function maskForms(text: string): string {
  return text
    .replace(USER_INFO, '$1***@')
    .replace(BEARER, '$1 ***')
    .replace(ASSIGNED, '$1***')
    .replace(NAMED, '$1***');
}
