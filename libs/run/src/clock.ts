/** The time, passed in so that tests can set it. The store's own clock decides about leases. */
export type Clock = () => Date;

export const systemClock: Clock = () => new Date();
