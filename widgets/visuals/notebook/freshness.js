/** Makes up for messages that got lost between kernel and page. */

const ASK_SOON_MS = 500;
const ASK_MS = 5000;
const NO_ANSWER_MS = 30000;

/**
 * Lets a model whose page was slow hear from its kernel; for `initialize`. The trait `identity` is the model's id.
 *
 * anywidget gives a module two seconds to load, and drops every later message of the kernel if it took longer. When
 * this runs it has loaded: messages go straight to where anywidget passes them, the handler of ipywidgets.
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

/** The method as the farthest ancestor defines it. */
function rootMethod(object, name) {
  let found = null;
  for (let each = object; each !== null; each = Object.getPrototypeOf(each)) {
    if (Object.hasOwn(each, name)) found = each[name];
  }
  return found;
}

/** Asks by the trait `version`; the kernel answers, and sends all again if that is not its own. Returns a stop. */
export function keepFresh(model, ended) {
  let askedAt = null;
  const ask = () => {
    const now = Date.now();
    if (askedAt !== null && now - askedAt < NO_ANSWER_MS) return;
    askedAt = now;
    model.send({ shown: model.get("version") });
  };
  const askingSoon = setTimeout(ask, ASK_SOON_MS);
  const asking = setInterval(ask, ASK_MS);
  const hear = (content) => {
    if (content?.fresh === undefined) return;
    askedAt = null;
    if (content.fresh && ended()) clearInterval(asking);
  };
  model.on("msg:custom", hear);
  return () => {
    clearTimeout(askingSoon);
    clearInterval(asking);
    model.off("msg:custom", hear);
  };
}
