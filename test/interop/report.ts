/** Runs checks one after another, prints each with its duration, and counts the results. */
export class Report {
  #passed = 0;
  #failed = 0;

  heading(text: string): void {
    console.log(`\n${text}`);
  }

  async check(name: string, run: () => Promise<void>): Promise<void> {
    const start = performance.now();
    const line = (mark: string) =>
      console.log(`  ${mark} ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
    try {
      await run();
      this.#passed += 1;
      line('✓');
    } catch (error) {
      this.#failed += 1;
      line('✗');
      console.log(indent(error instanceof Error ? error.message : String(error)));
    }
  }

  /** Prints the last line and sets the exit code. */
  finish(): void {
    console.log(`\n${this.#passed} passed, ${this.#failed} failed`);
    process.exitCode = this.#failed > 0 || this.#passed === 0 ? 1 : 0;
  }
}

function indent(text: string): string {
  return text.trimEnd().replace(/^/gm, '      ');
}
