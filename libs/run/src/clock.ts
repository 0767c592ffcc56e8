/** The time, passed in so that tests set it. The store's own clock decides about leases. */
export type Clock = () => Date;

export const systemClock: Clock = () => new Date();
