import { useState } from "react";
import type { Ending } from "../plan/plan";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import css from "./run.module.css";

/** "2 will be destroyed", with everything that makes it worse. */
export function endingTitle(e: Ending): string {
  if (e.destroys === 0) return e.uncertain ? "What would be destroyed is not known" : "Nothing will be destroyed";
  return `${e.uncertain ? "At least " : ""}${e.destroys.toLocaleString("en")} will be destroyed`;
}

/** Red where something is destroyed, a warning where it is not certain or something is forgotten, else calm. */
export function EndingBanner({ ending, level }: { ending: Ending; level: "h2" | "div" }) {
  const Title = level;
  const warn = ending.destroys === 0 && (ending.uncertain || ending.forgotten > 0);
  return (
    <div className={css.banner} data-calm={ending.destroys === 0 && !warn} data-warn={warn}>
      <Title className={css.bannerTitle}>{endingTitle(ending)}</Title>
      {ending.replaced > 0 && <div>{`${ending.replaced.toLocaleString("en")} of them made again`}</div>}
      {ending.unknown > 0 && (
        <div>{`${ending.unknown.toLocaleString("en")} with actions that Holdfast does not know: taken for destroying`}</div>
      )}
      {ending.forgotten > 0 && (
        <div>{`${ending.forgotten.toLocaleString("en")} will be forgotten: they go on existing, and nothing manages them any more`}</div>
      )}
      {ending.uncertain && ending.destroys > 0 && <div>Part of the plan could not be read, so it may be more</div>}
      <EndingList ending={ending} />
    </div>
  );
}

/** The objects by name. A long list is cut, with a button for the rest. */
export function EndingList({ ending, all: showAll = false }: { ending: Ending; all?: boolean }) {
  const [all, setAll] = useState(showAll);
  if (ending.named.length === 0 && ending.unnamed === 0) return null;
  const several = new Set(ending.named.map((n) => n.component)).size > 1;
  const shown = all ? ending.named : ending.named.slice(0, 8);
  return (
    <>
      <ul className={css.endings}>
        {shown.map(({ component, change }) => (
          <li key={`${component} ${change.address} ${change.deposed ?? ""}`}>
            {several && <Text limit={64}>{`${component}: `}</Text>}
            <code>
              <Text limit={300}>{change.address}</Text>
            </code>
            {change.class === "replace" && (change.create_first ? " replaced, the new one first" : " replaced")}
            {change.class === "unknown" && " unknown action"}
            {change.deposed && " a leftover of an earlier replacement"}
          </li>
        ))}
      </ul>
      {!all && ending.named.length > shown.length && (
        <button type="button" className={ui.more} onClick={() => setAll(true)}>
          Show all {ending.named.length.toLocaleString("en")}
        </button>
      )}
      {ending.unnamed > 0 && (
        <div>{`and ${ending.unnamed.toLocaleString("en")} more, which the plan does not list`}</div>
      )}
    </>
  );
}
