/** The first word of a worker to a page, before any close code: it runs. */
export const HERE = 0;
