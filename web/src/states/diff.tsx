import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { allVersions, stateDiff } from "../api/client";
import { jsonText } from "../api/exact";
import type { AttributeChange, State, StateDiff, StateVersion } from "../api/words";
import { Folding } from "../plan/folding";
import type { Attribute } from "../plan/plan";
import plan from "../plan/view.module.css";
import { Badge, Notice, type Tone } from "../ui/badge";
import { Empty, Loading } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import ui from "../ui/ui.module.css";
import css from "./states.module.css";

// What is gone stands first, as in the server's answer: it is what somebody looks for who rolls back.
const actions: [string, string, Tone][] = [
  ["removed", "Removed", "red"],
  ["changed", "Changed", "blue"],
  ["added", "Added", "green"],
];

function ActionBadge({ of }: { of: string }) {
  const known = actions.find(([a]) => a === of);
  return known ? <Badge tone={known[2]}>{known[1]}</Badge> : <Badge tone="orange">{of}</Badge>;
}

/** The tab in which two versions are chosen. Without a choice it is the current one and the one before it. */
export function Compare({ state: s }: { state: State }) {
  const search = useSearch({ from: "/signed-in/states/$state" });
  const navigate = useNavigate({ from: "/states/$state" });
  const list = useQuery({
    queryKey: ["state", s.name, "versions", "all", s.version],
    queryFn: ({ signal }) => allVersions(s.name, signal),
  });
  if (list.error) return <ProblemBox error={list.error} again={() => list.refetch()} />;
  if (!list.data) return <Loading what="versions" />;
  const versions = list.data.items;
  const pair = chosen(versions, s.version, search.from, search.to);
  if (!pair) {
    return (
      <Empty title="Nothing to compare">
        <p className="dim">It takes two versions.</p>
      </Empty>
    );
  }
  const set = (from: number, to: number) =>
    navigate({
      search: (old) => ({ ...old, from: String(from), to: String(to) }),
      replace: true,
      resetScroll: false,
    });
  const options = versions.map((v) => ({ value: String(v.version), label: labelOf(v) }));
  return (
    <div className={css.column}>
      <div className={ui.filters}>
        <NativeSelect
          label="From version"
          value={String(pair.from)}
          data={options}
          onChange={(e) => set(Number(e.currentTarget.value), pair.to)}
        />
        <NativeSelect
          label="To version"
          value={String(pair.to)}
          data={options}
          onChange={(e) => set(pair.from, Number(e.currentTarget.value))}
        />
        <div data-fixed>
          <Button variant="default" onClick={() => set(pair.to, pair.from)}>
            Swap
          </Button>
        </div>
      </div>
      {list.data.next !== "" && <p className="dim small">The {versions.length} newest versions can be chosen here.</p>}
      <Compared name={s.name} from={pair.from} to={pair.to} title={`From version ${pair.from} to version ${pair.to}`} />
    </div>
  );
}

function labelOf(v: StateVersion): string {
  const notes = [
    v.serial === null ? "serial not readable" : `serial ${v.serial}`,
    ...(v.current ? ["current"] : []),
    ...(v.quarantined ? ["quarantined"] : []),
  ];
  return `${v.version} (${notes.join(", ")})`;
}

/** The two versions of the address where they are there, else the last two. */
function chosen(
  versions: StateVersion[],
  current: number,
  from: string | undefined,
  to: string | undefined,
): { from: number; to: number } | null {
  const known = (n: string | undefined) => versions.find((v) => String(v.version) === n)?.version;
  const last = known(to) ?? versions.find((v) => v.version === current)?.version ?? versions[0]?.version;
  const before = known(from) ?? versions.find((v) => last !== undefined && v.version < last && !v.quarantined)?.version;
  const other = before ?? versions.find((v) => v.version !== last)?.version;
  return last === undefined || other === undefined ? null : { from: other, to: last };
}

/** How two versions of a state differ, resource by resource. */
export function Compared({ name, from, to, title }: { name: string; from: number; to: number; title: string }) {
  const diff = useQuery({
    queryKey: ["state-diff", name, from, to], // not with what is read again when the state changes
    queryFn: ({ signal }) => stateDiff(name, from, to, signal),
    staleTime: 30_000, // a version does not change, but for the one that is being written
    enabled: from !== to,
  });
  if (from === to) return <Notice tone="grey" title="Both are the same version" />;
  if (diff.error) return <ProblemBox error={diff.error} again={() => diff.refetch()} />;
  if (!diff.data) return <Loading what="the comparison" />;
  return <DiffView diff={diff.data} title={title} />;
}

function attribute(c: AttributeChange): Attribute {
  const text = (v: unknown) => (v === undefined ? undefined : jsonText(v));
  return { ...c, before: text(c.before), after: text(c.after) };
}

function DiffView({ diff: d, title }: { diff: StateDiff; title: string }) {
  if (d.unreadable) {
    return (
      <Notice tone="blue" title="Resources not readable">
        <p>
          The tool encrypted one of the two documents before it came here. Holdfast keeps such a document byte for byte
          and can neither read nor compare it.
        </p>
      </Notice>
    );
  }
  const { resources } = d;
  const few = resources.length <= 10;
  const nothing = resources.length === 0 && d.outputs.length === 0 && d.more === 0;
  return (
    <section className={ui.panel} aria-label={title}>
      <div className={ui.panelHead}>
        <h2>{title}</h2>
        <div className={plan.counts}>
          {actions.map(([action, label, tone]) => {
            const n = resources.filter((r) => r.action === action).length;
            return n > 0 ? (
              <Badge key={action} tone={tone}>
                {n.toLocaleString("en")} {label.toLowerCase()}
              </Badge>
            ) : null;
          })}
          <span className="dim small">{d.unchanged.toLocaleString("en")} unchanged</span>
        </div>
      </div>
      {d.lineage_changed && (
        <div className={plan.more}>
          <Notice tone="orange" title="Their lineages differ">
            <p>They may be of two configurations that have nothing to do with each other.</p>
          </Notice>
        </div>
      )}
      {nothing && <p className={`${plan.more} dim`}>No resource and no output differs.</p>}
      {resources.map((r) => (
        <Folding
          key={`${r.address} ${r.deposed ?? ""}`}
          open={few && r.action === "changed"}
          badge={<ActionBadge of={r.action} />}
          name={r.address}
          notes={r.deposed ? ["a leftover of an unfinished replacement"] : []}
          attributes={[...(r.about ?? []), ...r.attributes].map(attribute)}
          leftOut={r.attributes_more ?? 0}
        />
      ))}
      {d.outputs.map((o) => (
        <Folding
          key={`output ${o.name}`}
          open={few}
          badge={<ActionBadge of={o.action} />}
          name={o.name}
          notes={[<span key="o">output</span>]}
          attributes={[attribute({ ...o, path: "" })]}
          leftOut={0}
        />
      ))}
      {d.more > 0 && <p className={plan.more}>{`${d.more.toLocaleString("en")} more differences are not listed.`}</p>}
    </section>
  );
}
