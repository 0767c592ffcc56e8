import { jest } from '@jest/globals';
import { ingressFaults } from '../system/faults-ingress.suite.ts';

jest.setTimeout(900_000);

// Ten minutes of requests five seconds apart.
ingressFaults({ connections: 50, rounds: 121, replacements: 5 });
