// Features of both TypeScript SDKs in a session: a ping, a log level, subscriptions one
// resource at a time, and changes of lists without a subscription.

export function inSession(client) {
  return {
    ping: () => client.ping(),
    toolChanges: async () => ({ close: () => {} }),
    logging: async (level) => void (await client.setLoggingLevel(level)),
    watch: async (uris) => {
      let watched = uris;
      for (const uri of uris) await client.subscribeResource({ uri });
      const drop = async (gone) => {
        for (const uri of gone) await client.unsubscribeResource({ uri });
      };
      return {
        only: async (kept) => {
          await drop(watched.filter((uri) => !kept.includes(uri)));
          watched = kept;
        },
        close: () => drop(watched),
      };
    },
  };
}
