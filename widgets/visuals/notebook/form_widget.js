/** The form for front ends without the lab extension: each request is a message to the kernel, and has an answer. */

import { keepKeys } from "../base/keys.js";
import { FormSession } from "../live/form_session.js";
import { renderJobForm } from "../views/job_form.js";
import { hearKernel } from "./freshness.js";

const KERNEL_ANSWER_MS = 30000;
const NEWS_EVERY_MS = 20000;
const UNANSWERED =
  "The kernel of this form does not answer: it is busy, or it was restarted. Run the cell again for a form that works.";

export const formWidget = {
  initialize({ model }) {
    hearKernel(model);
  },
  render({ model, el }) {
    const form = document.createElement("article");
    keepKeys(form);
    el.append(form);
    const { backend, stop } = kernelBackend(model);
    const session = new FormSession(backend);
    session.changed = () => renderJobForm(form, session);
    session.changed();
    session.open();
    session.refreshFunctions();
    const looking = setInterval(() => {
      session.refreshFunctions();
      session.heardNews();
      session.changed();
    }, NEWS_EVERY_MS);
    return () => {
      clearInterval(looking);
      session.stop();
      stop();
    };
  },
};

/** The kernel as the backend of a form. */
function kernelBackend(model) {
  const waiting = new Map();
  let asked = 0;
  const hear = (content) => {
    const settle = waiting.get(content?.number);
    if (!settle) return;
    waiting.delete(content.number);
    settle(content.answer);
  };
  model.on("msg:custom", hear);
  const ask = async (question) => {
    const number = (asked += 1);
    const { value, error, field } = await new Promise((resolve) => {
      waiting.set(number, resolve);
      setTimeout(() => hear({ number, answer: { error: UNANSWERED } }), KERNEL_ANSWER_MS);
      model.send({ number, ask: question });
    });
    if (error) throw Object.assign(new Error(error), { field });
    return value;
  };
  const backend = {
    form: () => ask({ do: "form" }),
    functions: () => ask({ do: "functions" }),
    check: (work, given) => ask({ do: "arguments", work, arguments: given }),
    preview: (work, given) => ask({ do: "preview", work, arguments: given }),
    review: (typed) => ask({ do: "review", typed }),
    environment: (work) => ask({ do: "environment", ...work }),
    submit: (work) => ask({ do: "submit", ...work }),
  };
  return { backend, stop: () => model.off("msg:custom", hear) };
}

export default formWidget;
