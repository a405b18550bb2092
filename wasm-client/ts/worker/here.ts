/** What a worker says first, before any close code: that it runs. */
export const HERE = 0;
