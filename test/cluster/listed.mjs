/** Waits until the tool that is named is listed. Plain JavaScript, as the image runs it alone. */
import { listed } from './mcp.mjs';

await listed(process.argv[2]);
