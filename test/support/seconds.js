/** A Jest reporter: prints the seconds of each test file, slowest first, and the sum of all. */
export default class Seconds {
  onRunComplete(_contexts, { testResults }) {
    const files = testResults
      .map(({ testFilePath, perfStats }) => ({
        file: testFilePath.replace(`${process.cwd()}/`, ''),
        seconds: (perfStats.end - perfStats.start) / 1000,
      }))
      .sort((a, b) => b.seconds - a.seconds);
    const lines = files.map(({ file, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${file}`);
    process.stdout.write(`\nSeconds of each file, slowest first\n${lines.join('\n')}\n`);
  }
}
