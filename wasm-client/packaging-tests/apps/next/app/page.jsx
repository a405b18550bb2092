/** A page that the server renders, with a part that lives in the browser. */

import { Counter } from "./counter";

export default function Page() {
  return (
    <main>
      <h1>A counter</h1>
      <Counter url={process.env.NEXT_PUBLIC_RELAY} />
    </main>
  );
}
