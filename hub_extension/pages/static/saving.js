/** Answers of the API as files that the browser saves. */

import { attempted, openFile } from "./site.js";

/** Saves the answer of a call as a file of this name; a refusal is shown at the top of the page. */
export function saveFile(path, name) {
  return attempted(async () => {
    const answer = await openFile(path);
    const address = URL.createObjectURL(await answer.blob());
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    URL.revokeObjectURL(address);
  });
}
