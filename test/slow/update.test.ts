import { jest } from '@jest/globals';
import { updates } from '../system/update.suite.ts';

jest.setTimeout(300_000);

updates({ callMs: 60_000, drainMs: 10_000, hosts: 50, rounds: 2 });
