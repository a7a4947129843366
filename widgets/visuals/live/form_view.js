/** A form that follows the feed of its page. Its session outlives the element, so that nothing typed is lost. */

import { barScale, byType } from "../charts/project_bar.js";
import { renderJobForm } from "../views/job_form.js";
import { FormSession } from "./form_session.js";
import { showJob } from "./job_view.js";
import { awayWords } from "./stale.js";

/**
 * Shows a form in `element`, and below it the cards of the jobs submitted with it.
 * @param kept an object that the caller keeps as long as the form exists, with those of the cards; empty at first
 * @param makeBackend makes the backend of `FormSession`; its `follow(changed)` calls `changed` when the kernel may have
 *   other functions, and returns a function that ends that
 * @returns a function that ends the view
 */
export function showForm(element, feed, kept, makeBackend) {
  const session = (kept.session ??= new FormSession(makeBackend()));
  const form = document.createElement("div");
  const cards = document.createElement("div");
  cards.className = "st-form-cards";
  element.replaceChildren(form, cards);
  const shown = new Map();
  const cardsKept = (kept.cards ??= new Map());
  let person = feed.me;
  const draw = () => {
    renderJobForm(form, session, { ...projectOf(feed, session), away: awayOf(feed) });
    for (const sent of session.sent) if (!shown.has(sent.id)) show(sent);
  };
  const show = (sent) => {
    if (!cardsKept.has(sent.id)) cardsKept.set(sent.id, {});
    shown.set(sent.id, showSent(cards, feed, sent, cardsKept.get(sent.id)));
  };
  const heard = () => {
    if (feed.me !== person && person !== null) session.open();
    person = feed.me;
    session.heardNews(inSight(form));
    draw();
  };
  session.changed = draw;
  session.resume();
  const { stop } = feed.watchPool(heard);
  const leave = session.backend.follow(() => session.refreshFunctions());
  draw();
  session.open();
  session.refreshFunctions();
  return () => {
    stop();
    leave();
    session.stop();
    session.changed = () => {};
    for (const end of shown.values()) end();
  };
}

/** The selected project in its present state, on the scale of the pool. */
function projectOf({ pool }, session) {
  const project = pool?.projects.find(({ name }) => name === session.typed.project);
  return project ? { project, scale: barScale(pool.projects.flatMap(byType), pool.train_gpus) } : {};
}

function inSight(element) {
  const { top, bottom, width } = element.getBoundingClientRect();
  return document.visibilityState === "visible" && width > 0 && bottom > 0 && top < window.innerHeight;
}

function awayOf(feed) {
  return feed.connection.state === "away" ? awayWords(feed) : null;
}

/** The card of a submitted job, which fetches the accepted job when it appears. */
function showSent(cards, feed, { job, notes }, kept) {
  const card = document.createElement("article");
  cards.prepend(card);
  return showJob(card, feed, { job, at: Date.now() / 1000, notice: notes.join(" ") }, kept);
}
