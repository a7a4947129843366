/** Recovers from lost messages between kernel and page. */

const ASK_SOON_MS = 500;
const ASK_MS = 5000;
const NO_ANSWER_MS = 30000;
const SILENT_MS = 12000;

/**
 * Makes a model on a slow page receive its kernel's messages; for `initialize`. The trait `identity` is the model's id.
 *
 * anywidget gives a module two seconds to load, and drops every later message of the kernel if it took longer. When
 * this runs, the module has loaded: messages go directly to the handler of ipywidgets, as anywidget would pass them.
 */
export async function hearKernel(model) {
  try {
    const whole = await model.widget_manager.get_model(model.get("identity"));
    const handle = rootMethod(whole, "_handle_comm_msg");
    whole.comm?.on_msg((message) => handle.call(whole, message));
  } catch (error) {
    console.warn("Springtide: a page that is slow may miss what its kernel says.", error);
  }
}

/** The method of the most distant ancestor. */
function rootMethod(object, name) {
  let found = null;
  for (let each = object; each !== null; each = Object.getPrototypeOf(each)) {
    if (Object.hasOwn(each, name)) found = each[name];
  }
  return found;
}

/** The notice of a card whose kernel has not answered for a while. */
export const SILENT_KERNEL =
  "The kernel of this card has not answered for a while: it is busy, or it was restarted. The card shows what it said last; run the cell again for a live one.";

/**
 * Sends the trait `version`; the kernel answers, and sends everything again if its version differs. Returns a function
 * that stops it.
 * @param silent called with whether the kernel has been silent long enough for the displayed state to be old
 */
export function keepFresh(model, ended, silent = () => {}) {
  let askedAt = null;
  let heardAt = Date.now();
  const noteHeard = () => {
    heardAt = Date.now();
    silent(false);
  };
  model.on("change:version", noteHeard);
  const ask = () => {
    const now = Date.now();
    silent(!ended() && now - heardAt > SILENT_MS);
    if (askedAt !== null && now - askedAt < NO_ANSWER_MS) return;
    askedAt = now;
    model.send({ shown: model.get("version") });
  };
  const askingSoon = setTimeout(ask, ASK_SOON_MS);
  const asking = setInterval(ask, ASK_MS);
  const hear = (content) => {
    if (content?.fresh === undefined) return;
    askedAt = null;
    noteHeard();
    if (content.fresh && ended()) clearInterval(asking);
  };
  model.on("msg:custom", hear);
  return () => {
    clearTimeout(askingSoon);
    clearInterval(asking);
    model.off("msg:custom", hear);
    model.off("change:version", noteHeard);
  };
}
