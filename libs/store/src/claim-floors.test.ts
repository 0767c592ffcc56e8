import { expect, test } from '@jest/globals';
import { ClaimFloors } from './claim-floors.js';

test('a claim begins behind what the last one left nothing of, each set of workflows for itself', () => {
  const floors = new ClaimFloors();
  floors.look('a').done(10);
  expect(floors.look('a').from).toBe(10);
  expect(floors.look('b').from).toBe(0);
});

test('a run that comes up below the floor lowers it', () => {
  const floors = new ClaimFloors();
  floors.look('a').done(10);
  floors.lower(7);
  expect(floors.look('a').from).toBe(6);
  floors.lower(9);
  expect(floors.look('a').from).toBe(6);
});

test('a run that comes up during a claim is not passed over by its floor', () => {
  const floors = new ClaimFloors();
  floors.look('a').done(10);
  const look = floors.look('a');
  floors.lower(12);
  look.done(20);
  expect(floors.look('a').from).toBe(11);
});

test('an older claim that ends later does not take the floor back', () => {
  const floors = new ClaimFloors();
  const older = floors.look('a');
  floors.look('a').done(20);
  older.done(10);
  expect(floors.look('a').from).toBe(20);
});

test('after a failed claim everything is looked at again, also by claims that passed over its rows', () => {
  const floors = new ClaimFloors();
  floors.look('a').done(10);
  const failing = floors.look('a');
  const beside = floors.look('b');
  failing.failed();
  beside.done(20);
  expect(floors.look('a').from).toBe(0);
  expect(floors.look('b').from).toBe(0);
});

test('of many sets those that were used last are remembered, and the others are looked through anew', () => {
  const floors = new ClaimFloors();
  for (let i = 0; i < 200; i++) {
    floors.look('always').done(1_000 + i);
    floors.look(`set ${i}`).done(5);
  }
  expect(floors.look('always').from).toBe(1_199);
  expect(floors.look('set 199').from).toBe(5);
  expect(floors.look('set 0').from).toBe(0);
});
