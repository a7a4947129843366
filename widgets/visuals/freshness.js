/** Makes up for messages that got lost between kernel and page: asks whether there is something newer to show. */

const ASK_MS = 5000;
const NO_ANSWER_MS = 30000;

/** Asks by the trait `version`; the kernel answers, and sends all again if that is not its own. Returns a stop. */
export function keepFresh(model, ended) {
  let askedAt = null;
  const ask = () => {
    const now = Date.now();
    if (askedAt !== null && now - askedAt < NO_ANSWER_MS) return;
    askedAt = now;
    model.send({ shown: model.get("version") });
  };
  const asking = setInterval(ask, ASK_MS);
  const hear = (content) => {
    if (content?.fresh === undefined) return;
    askedAt = null;
    if (content.fresh && ended()) clearInterval(asking);
  };
  model.on("msg:custom", hear);
  return () => {
    clearInterval(asking);
    model.off("msg:custom", hear);
  };
}
