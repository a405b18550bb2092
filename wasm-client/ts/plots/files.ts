/** Tables as CSV, as RFC 4180 and spreadsheets have it, and files for the browser's downloads. */

function cell(text: string): string {
  // A spreadsheet would compute a text that begins like a formula; a number with a sign stays one.
  const isFormula = /^[=+@\t\r-]/.test(text) && Number.isNaN(Number(text));
  const safe = isFormula ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A table as CSV. A text that a spreadsheet would take for a formula begins with an apostrophe. */
export function csvText(lines: readonly (readonly string[])[]): string {
  return lines.map((cells) => cells.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Gives the browser a file to store. A text is CSV unless `type` is another. */
export function download(name: string, content: string | Blob, type = "text/csv"): void {
  const blob =
    typeof content === "string" ? new Blob([content], { type: `${type};charset=utf-8` }) : content;
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => {
    URL.revokeObjectURL(address);
  }, 10_000);
}
