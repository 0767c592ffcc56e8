/** What a setting's text turned out to be: its value, or everything that is wrong with it. */
export type Parsed<T> = { readonly value: T } | { readonly wrong: readonly string[] };
