/** The download of the listed jobs as CSV. */

import { attempted, openFile } from "../site.js";

/** Downloads all jobs of a query of the list, with their arguments and metrics. */
export function downloadTable(query) {
  const asked = new URLSearchParams(query);
  for (const name of ["limit", "cursor", "starts"]) asked.delete(name);
  return attempted(async () => {
    const answer = await openFile(`jobs.csv?${asked}`);
    const address = URL.createObjectURL(await answer.blob());
    const link = document.createElement("a");
    link.href = address;
    link.download = "jobs.csv";
    link.click();
    URL.revokeObjectURL(address);
  });
}
