/** Waits until the named tool is listed. Plain JavaScript, because the image runs only this file. */
import { listed } from './mcp.mjs';

await listed(process.argv[2]);
