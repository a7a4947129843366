/** Links in cards, lists and forms: none of them replaces the page, which may have unsaved work. */

import { isJobId } from "./choosing.js";

/**
 * Opens clicked links to jobs with `openJob(id)`, unless it is null, and further links in a tab of the browser. Clicks with
 * a key are the browser's.
 */
export function keepPage(pageOf, openJob) {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest?.(".springtide a[href]");
    if (!link) return;
    const job = openJob && jobOf(link, pageOf);
    if (job) {
      event.preventDefault();
      openJob(job);
    } else if (!link.target && !link.getAttribute("href").startsWith("#")) {
      link.target = "_blank";
      link.rel = "noopener";
    }
  });
}

/** The id of the job to which a link leads; null if there is none, or if the link is in the tab of that job. */
function jobOf(link, pageOf) {
  const address = link.getAttribute("href");
  const id = address.split("/").at(-1);
  if (!isJobId(id) || address !== pageOf(id)) return null;
  return link.closest("[data-job-tab]")?.dataset.jobTab === id ? null : id;
}
