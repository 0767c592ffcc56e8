/** What happened, for metrics. */
export interface ConnectorObserver {
  called(call: {
    readonly server: string;
    readonly outcome: 'ran' | 'refused' | 'not_sent' | 'unknown';
    readonly seconds: number;
  }): void;
  /** Whether a server is connected; undefined when this connector has it no longer. */
  connected(server: string, isConnected: boolean | undefined): void;
}
