/** The first message of a worker to a page, before any close code: it is running. */
export const HERE = 0;
