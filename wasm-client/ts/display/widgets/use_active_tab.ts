/** Which of some tabs is shown: the one that was chosen last, by the operator or by a rule. */

import { useState } from "react";

import type { Props } from "../model/props.js";

/** The index of the tab, and what chooses another one. */
export function useActiveTab(
  props: Props,
  count: number,
): readonly [at: number, choose: (at: number) => void] {
  const wanted = Math.max(0, Math.min(count - 1, props.integer("active_tab")));
  const [chosen, setChosen] = useState({ wanted, at: wanted });
  const at = chosen.wanted === wanted ? chosen.at : wanted;
  return [
    at,
    (next) => {
      setChosen({ wanted, at: next });
    },
  ];
}
