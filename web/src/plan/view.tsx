import { Button, TextInput } from "@mantine/core";
import { type ReactNode, useDeferredValue, useState } from "react";
import { EndingBanner } from "../run/ending";
import { plain } from "../text/visible";
import { Badge, Notice, type Tone } from "../ui/badge";
import { Empty, Loading } from "../ui/page";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { Folding } from "./folding";
import {
  type Change,
  type Class,
  ending,
  forcesReplacement,
  type OutputChange,
  type Planned,
  reasonText,
  type View,
} from "./plan";
import css from "./view.module.css";

const classes: Record<Class, { label: string; tone: Tone }> = {
  unknown: { label: "Unknown action", tone: "red" },
  delete: { label: "Destroy", tone: "red" },
  replace: { label: "Replace", tone: "red" },
  forget: { label: "Forget", tone: "orange" },
  forget_create: { label: "Forget, create", tone: "orange" },
  update: { label: "Change", tone: "blue" },
  create: { label: "Create", tone: "green" },
  import: { label: "Import", tone: "purple" },
  move: { label: "Move", tone: "purple" },
  read: { label: "Read", tone: "grey" },
  noop: { label: "No change", tone: "grey" },
};

function ClassBadge({ of }: { of: Class }) {
  const c = classes[of] ?? classes.unknown;
  return <Badge tone={c.tone}>{c.label}</Badge>;
}

/** The plan of a run as a list: what ends objects first, each attribute with what it was and what it will be. */
export function PlanView({
  planned,
  hasPlan,
  live,
  asked,
}: {
  planned: Planned[] | undefined;
  hasPlan: boolean;
  live: boolean;
  asked: boolean;
}) {
  if (!hasPlan) {
    return (
      <Empty title={live ? "Not planned yet" : "There is no plan"}>
        <p className="dim">{live ? "The log shows how far it is." : "The run ended before there was one."}</p>
      </Empty>
    );
  }
  if (!planned) return <Loading what="the plan" />;
  return (
    <div className={css.plan}>
      {/* While the run asks, the same banner stands above, with the buttons. */}
      {!asked && (
        <div className={ui.panel}>
          <EndingBanner ending={ending(planned)} level="div" />
        </div>
      )}
      {planned.map((p) => (
        <Component key={p.component} planned={p} several={planned.length > 1} />
      ))}
    </div>
  );
}

const counted: [keyof View, string, Tone][] = [
  ["unknown", "unknown", "red"],
  ["destroy", "destroy", "red"],
  ["replace", "replace", "red"],
  ["forget", "forget", "orange"],
  ["change", "change", "blue"],
  ["add", "create", "green"],
  ["import", "import", "purple"],
  ["move", "move", "purple"],
  ["read", "read", "grey"],
  ["outputs", "outputs", "grey"],
];

function Component({ planned, several }: { planned: Planned; several: boolean }) {
  const v = planned.view;
  if (!v) {
    return (
      <Notice tone="orange" title={<Text limit={64}>{`The plan of ${planned.component} cannot be shown here`}</Text>}>
        <p>It was made by an agent of another version. Update the server; until then, read it with the command line.</p>
      </Notice>
    );
  }
  const counts = counted.filter(([k]) => (v[k] as number) > 0);
  return (
    <>
      {v.errored && (
        <Notice tone="red" title="The plan failed">
          <p>What stands here is incomplete. The log says why.</p>
        </Notice>
      )}
      {v.incomplete && (
        <Notice tone="orange" title="The plan is incomplete">
          <p>The tool put changes off to a later plan.</p>
        </Notice>
      )}
      {v.checks.length > 0 && <Checks view={v} />}
      <section className={ui.panel} aria-label={`Plan of ${plain(planned.component)}`}>
        <div className={ui.panelHead}>
          <h2>{several ? <Text limit={64}>{planned.component}</Text> : "Changes"}</h2>
          <div className={css.counts}>
            {counts.length === 0 && <span className="dim">none</span>}
            {counts.map(([k, label, tone]) => (
              <Badge key={k} tone={tone}>
                {(v[k] as number).toLocaleString("en")} {k === "outputs" && v.outputs === 1 ? "output" : label}
              </Badge>
            ))}
          </div>
        </div>
        <Changes
          changes={v.changes}
          none={v.output_changes.length > 0 ? "No object changes, only outputs." : "Nothing would change."}
        />
        {v.changes_left_out > 0 && (
          <div className={css.more}>
            {`${v.changes_left_out.toLocaleString("en")} more changes are counted above and not listed; none of what is listed last is more dangerous.`}
          </div>
        )}
      </section>
      {v.output_changes.length > 0 && (
        <section className={ui.panel} aria-label={`Outputs that change in ${plain(planned.component)}`}>
          <div className={ui.panelHead}>
            <h2>Outputs that change</h2>
          </div>
          {v.output_changes.map((o) => (
            <OutputRow key={o.name} output={o} />
          ))}
        </section>
      )}
      {(v.drift.length > 0 || v.drifted > 0) && (
        <section className={ui.panel} aria-label={`Changed outside, in ${plain(planned.component)}`}>
          <div className={ui.panelHead}>
            <h2>Changed outside of the configuration</h2>
            <span className="dim small">{v.drifted.toLocaleString("en")} since the last apply</span>
          </div>
          <Changes changes={v.drift} none="They are not listed." closed />
        </section>
      )}
    </>
  );
}

/** How many rows are put on the page at a time. */
const step = 200;
/** Up to so many changes are shown with their attributes open. */
const fewChanges = 10;

function Changes({ changes, none, closed }: { changes: Change[]; none: string; closed?: boolean }) {
  const [filter, setFilter] = useState("");
  const [shown, setShown] = useState(step);
  const wanted = useDeferredValue(filter.trim().toLowerCase());
  if (changes.length === 0) return <p className={`${css.more} dim`}>{none}</p>;
  const found = wanted
    ? changes.filter((c) => `${c.address} ${c.previous_address ?? ""}`.toLowerCase().includes(wanted))
    : changes;
  return (
    <>
      {changes.length > fewChanges && (
        <div className={css.search}>
          <TextInput
            aria-label="Filter the changes by address"
            placeholder="A part of an address"
            value={filter}
            onChange={(e) => setFilter(e.currentTarget.value)}
            data-filter=""
            size="xs"
            spellCheck={false}
          />
          <p className="hide" role="status">
            {wanted && `${found.length} of ${changes.length}`}
          </p>
        </div>
      )}
      {found.length === 0 && <p className={`${css.more} dim`}>No address has this in it.</p>}
      {found.slice(0, shown).map((c) => (
        <ChangeRow
          key={`${c.address} ${c.deposed ?? ""}`}
          change={c}
          open={!closed && changes.length <= fewChanges && c.class !== "delete" && c.class !== "create"}
        />
      ))}
      {found.length > shown && (
        <div className={css.more}>
          <Button variant="default" size="xs" onClick={() => setShown(shown + step)}>
            Show {Math.min(step, found.length - shown)} more of {(found.length - shown).toLocaleString("en")}
          </Button>
        </div>
      )}
    </>
  );
}

function ChangeRow({ change: c, open }: { change: Change; open: boolean }) {
  const notes: ReactNode[] = [];
  if (c.previous_address && c.previous_address !== c.address)
    notes.push(
      <>
        moved from <Text limit={300}>{c.previous_address}</Text>
      </>,
    );
  if (c.importing)
    notes.push(
      <>
        imported as <Text limit={300}>{c.importing}</Text>
      </>,
    );
  if (c.class === "replace")
    notes.push(c.create_first ? "the new one is made first" : "destroyed first, then made again");
  if (c.class === "forget") notes.push("it goes on existing, and nothing manages it any more");
  if (c.class === "forget_create") notes.push("the old one goes on existing unmanaged, and a new one is made");
  if (c.class === "unknown") notes.push(<Text limit={200}>{`actions: ${c.actions.join(", ")}`}</Text>);
  if (c.deposed) notes.push("a leftover of an earlier replacement");
  const reason = reasonText(c.reason);
  if (reason) notes.push(<Text limit={200}>{reason}</Text>);
  return (
    <Folding
      open={open}
      badge={<ClassBadge of={c.class} />}
      name={c.address}
      notes={notes}
      attributes={c.attributes}
      leftOut={c.attributes_left_out ?? 0}
      forces={(path) => c.class === "replace" && forcesReplacement(c, path)}
    />
  );
}

function OutputRow({ output: o }: { output: OutputChange }) {
  return (
    <Folding
      open
      badge={<ClassBadge of={o.class} />}
      name={o.name}
      notes={o.sensitive ? [<span key="s">sensitive</span>] : []}
      attributes={o.attributes}
      leftOut={o.attributes_left_out ?? 0}
    />
  );
}

function Checks({ view }: { view: View }) {
  return (
    <Notice tone="orange" title="Checks that do not hold">
      <ul className={css.messages}>
        {view.checks.map((c) => (
          <li key={c.address}>
            <code>
              <Text limit={300}>{c.address}</Text>
            </code>{" "}
            {c.status === "error" && "(could not be checked) "}
            {(c.messages ?? []).map((m) => (
              <div key={m}>
                <Text lines>{m}</Text>
              </div>
            ))}
          </li>
        ))}
      </ul>
    </Notice>
  );
}
