/** The download of the listed jobs as CSV. */

import { saveFile } from "../saving.js";

/** Downloads all jobs of a query of the list, with their arguments and metrics. */
export function downloadTable(query) {
  const asked = new URLSearchParams(query);
  for (const name of ["limit", "cursor", "starts"]) asked.delete(name);
  return saveFile(`jobs.csv?${asked}`, "jobs.csv");
}
