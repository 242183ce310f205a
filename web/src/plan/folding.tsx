import { type ReactNode, useState } from "react";
import { Text } from "../ui/text";
import { type Attribute, type Side, sides } from "./plan";
import css from "./view.module.css";

/** One object or output: what happens to it, and on opening each attribute with what it was and what it will be. */
export function Folding({
  open,
  badge,
  name,
  notes,
  attributes,
  leftOut,
  forces = () => false,
}: {
  open: boolean;
  badge: ReactNode;
  name: string;
  notes: ReactNode[];
  attributes: Attribute[];
  leftOut: number;
  /** Whether a change of that attribute is why the object is replaced. */
  forces?: (path: string) => boolean;
}) {
  const [isOpen, setOpen] = useState(open);
  const head = (
    <>
      <span>{badge}</span>
      <span className={css.address}>
        <code>
          <Text limit={300}>{name}</Text>
        </code>
        {notes.map((n, i) => (
          <span key={i} className={css.notes}>
            {" · "}
            {n}
          </span>
        ))}
      </span>
    </>
  );
  if (attributes.length === 0 && leftOut === 0) {
    return (
      <div className={css.change}>
        <div className={css.plainHead}>{head}</div>
      </div>
    );
  }
  return (
    <details className={css.change} open={isOpen} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{head}</summary>
      {isOpen && <Attributes of={attributes} leftOut={leftOut} forces={forces} />}
    </details>
  );
}

function Attributes({ of, leftOut, forces }: { of: Attribute[]; leftOut: number; forces: (path: string) => boolean }) {
  return (
    <>
      <table className={css.attributes}>
        <thead>
          <tr>
            <th scope="col">Attribute</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {of.map((a) => {
            const s = sides(a);
            return (
              <tr key={a.path}>
                <td>
                  <code>
                    <Text limit={300}>{a.path || "value"}</Text>
                  </code>
                  {forces(a.path) && <div className={css.force}>forces the replacement</div>}
                  {a.cut && <div className={css.notes}>cut: it is longer</div>}
                </td>
                <td className={css.before} data-label="before">
                  <Value side={s.before} />
                </td>
                <td className={css.after} data-label="after">
                  <Value side={s.after} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {leftOut > 0 && (
        <p
          className={`${css.more} dim`}
        >{`${leftOut.toLocaleString("en")} more attributes change and are not listed.`}</p>
      )}
    </>
  );
}

function Value({ side }: { side: Side }) {
  switch (side.kind) {
    case "value":
      return (
        <code className={css.value}>
          <Text limit={600}>{side.text}</Text>
        </code>
      );
    case "text":
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <pre className={css.value} tabIndex={0}>
          <Text lines>{side.text}</Text>
        </pre>
      );
    case "sensitive":
      return <span className={css.sensitive}>({side.text})</span>;
    default:
      return <span className={css.word}>({side.text})</span>;
  }
}
