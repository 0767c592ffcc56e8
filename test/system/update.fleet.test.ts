import { jest } from '@jest/globals';
import { updates } from './update.suite.ts';

// Services are started anew several times in each test.
jest.setTimeout(90_000);

// A fifth of the drain is how long the balancer has to learn that a gateway goes.
updates({ callMs: 12_000, drainMs: 8_000, hosts: 10, rounds: 1 });
