import { isIP } from 'node:net';

/** Whether only this machine reaches an address. `0.0.0.0`, `::` and the address of a pod do not count (BEHAVIOURS 8). */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1' || host === '[::1]') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}
