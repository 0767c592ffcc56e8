import { upstreamCases } from './upstream.suite.ts';

upstreamCases('postgres');
