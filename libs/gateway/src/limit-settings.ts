import { getHeapStatistics } from 'node:v8';
import type { McpSettings } from '@holdfast/mcp-server';
import { setting, type SettingsOf } from '@holdfast/ops';

/** What one process and one caller may take; docs/limits.md says what happens at each limit. */
export const limitSettings = {
  limitsMessageValues: setting.integer('HOLDFAST_LIMITS_MESSAGE_VALUES', {
    about: 'JSON values in one message of a host',
    default: 100_000,
    min: 1_000,
  }),
  limitsRequestBytes: setting.bytes('HOLDFAST_LIMITS_REQUEST_BYTES', {
    about: 'memory for the requests that have no answer yet, of one gateway',
    defaultText: 'an eighth of the heap',
    min: 1024,
  }),
  limitsCallerRequestBytes: setting.bytes('HOLDFAST_LIMITS_CALLER_REQUEST_BYTES', {
    about: 'the part of HOLDFAST_LIMITS_REQUEST_BYTES that one caller may take',
    defaultText: 'half of it',
    min: 1024,
  }),
  limitsUnreadBytes: setting.bytes('HOLDFAST_LIMITS_UNREAD_BYTES', {
    about: 'memory for the answers that their hosts have not taken, of one gateway',
    defaultText: 'an eighth of the heap',
    min: 1024,
  }),
  limitsCallerUnreadBytes: setting.bytes('HOLDFAST_LIMITS_CALLER_UNREAD_BYTES', {
    about: 'the part of HOLDFAST_LIMITS_UNREAD_BYTES that one caller may take',
    defaultText: 'half of it',
    min: 1024,
  }),
  limitsUnreadMs: setting.duration('HOLDFAST_LIMITS_UNREAD_MS', {
    about: 'a host that takes nothing of its answer for this long is cut off',
    default: 30_000,
    min: 100,
  }),
  limitsCallerStreams: setting.integer('HOLDFAST_LIMITS_CALLER_STREAMS', {
    about: 'streams on which one caller listens for changes, at one gateway',
    default: 256,
    min: 1,
  }),
  limitsCallerCalls: setting.integer('HOLDFAST_LIMITS_CALLER_CALLS', {
    about: 'calls of one caller that wait for their answer, at one gateway',
    default: 1_000,
    min: 1,
  }),
  limitsCallerCallsPerSecond: setting.integer('HOLDFAST_LIMITS_CALLER_CALLS_PER_SECOND', {
    about: 'calls of one caller a second, at one gateway',
    default: 1_000,
    min: 1,
  }),
};

/** The limits of this process. Those in bytes follow the heap that Node was given. */
export function limitsOf(settings: SettingsOf<typeof limitSettings>): McpSettings['limits'] {
  const share = Math.floor(getHeapStatistics().heap_size_limit / 8);
  const requestBytes = settings.limitsRequestBytes ?? share;
  const unreadBytes = settings.limitsUnreadBytes ?? share;
  return {
    messageValues: settings.limitsMessageValues,
    requestBytes,
    callerRequestBytes: settings.limitsCallerRequestBytes ?? Math.floor(requestBytes / 2),
    unreadBytes,
    callerUnreadBytes: settings.limitsCallerUnreadBytes ?? Math.floor(unreadBytes / 2),
    unreadMs: settings.limitsUnreadMs,
    callerStreams: settings.limitsCallerStreams,
    callerCalls: settings.limitsCallerCalls,
    callerCallsPerSecond: settings.limitsCallerCallsPerSecond,
  };
}
