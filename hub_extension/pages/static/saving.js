/** Answers of the API as files that the browser saves. */

import { attempted, openFile } from "./site.js";
import { saveBlob } from "./visuals/base/saving.js";

/** Saves the answer of a call as a file of this name; a refusal is shown at the top of the page. */
export function saveFile(path, name) {
  return attempted(async () => {
    const answer = await openFile(path);
    saveBlob(await answer.blob(), name);
  });
}
