/** Waits until the tool that is named is listed. Plain JavaScript, as the image runs it alone. */
import { ask } from './mcp.mjs';

const name = process.argv[2];
const deadline = Date.now() + 180_000;
for (;;) {
  const { tools } = await ask('tools/list').catch((error) => ({ tools: [], error }));
  if (tools.some((tool) => tool.name === name)) break;
  if (Date.now() > deadline) throw new Error(`${name} is not listed`);
  await new Promise((resolve) => setTimeout(resolve, 500));
}
