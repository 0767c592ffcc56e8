import { jest } from '@jest/globals';
import { ingressFaults } from './faults-ingress.suite.ts';

jest.setTimeout(90_000);

ingressFaults({ connections: 50, rounds: 3, replacements: 1 });
