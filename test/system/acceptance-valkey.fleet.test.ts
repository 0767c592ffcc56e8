import { acceptanceCases } from './acceptance.suite.ts';

acceptanceCases('valkey');
