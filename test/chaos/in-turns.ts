/** Runs all tasks, a limited number at a time. */
export async function inTurns<T>(
  all: readonly T[],
  width: number,
  act: (one: T, index: number) => Promise<void>,
): Promise<void> {
  const turns = all.entries();
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (const [i, one] of turns) await act(one, i);
    }),
  );
}
