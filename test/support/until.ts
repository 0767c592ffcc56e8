/** Polls until `look` returns something. The time limit of the test ends a wait that never does. */
export async function until<T>(
  look: () => Promise<T> | T,
  pauseMs = 5,
): Promise<Exclude<T, undefined | false | null>> {
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false && found !== null)
      return found as Exclude<T, undefined | false | null>;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
