import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { stateOutputs, stateResource, stateResources } from "../api/client";
import { jsonText } from "../api/exact";
import type { Resource, ResourceInstance, State, StateOutput, StateValue } from "../api/words";
import { useMay } from "../app/session";
import plan from "../plan/view.module.css";
import { Badge, Notice } from "../ui/badge";
import { TextFilter } from "../ui/filter";
import { Empty, Loading } from "../ui/page";
import { Pager } from "../ui/pager";
import { ProblemBox } from "../ui/problem";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import css from "./states.module.css";

/** What is in the current document: outputs, and resources with their values as far as they are not sensitive. */
export function Resources({ state: s }: { state: State }) {
  const mayRead = useMay("tf_state:read");
  if (s.deleted_at) return <Empty title="The state is deleted" />;
  if (s.version === 0) return <Empty title="Nothing has been written yet" />;
  if (s.client_encrypted) return <Unreadable />;
  return (
    <div className={css.column}>
      {mayRead && <Outputs name={s.name} version={s.version} />}
      <ResourceList name={s.name} version={s.version} mayRead={mayRead} />
    </div>
  );
}

function Unreadable() {
  return (
    <Empty title="Resources not readable">
      <p className="dim">The tool encrypted this document before it came here, and Holdfast has no key to it.</p>
    </Empty>
  );
}

function ResourceList({ name, version, mayRead }: { name: string; version: number; mayRead: boolean }) {
  const { q, cursor } = useSearch({ from: "/signed-in/states/$state" });
  const navigate = useNavigate({ from: "/states/$state" });
  const list = useQuery({
    queryKey: ["state", name, "resources", version, q, cursor],
    queryFn: ({ signal }) => stateResources(name, { q, cursor }, signal),
    placeholderData: keepPreviousData,
    // A list that is made later is looked for until it is there.
    refetchInterval: ({ state }) => (state.data?.pending ? 5000 : false),
  });
  const l = list.data;
  return (
    <section className={css.column} aria-label="Resources">
      <search className={ui.filters} aria-label="Resources of this state">
        <TextFilter
          first
          label="Resource"
          value={q ?? ""}
          placeholder="A part of its address or provider"
          onChange={(v) =>
            navigate({
              search: (old) => ({ ...old, q: v || undefined, cursor: undefined }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      </search>
      {list.error && <ProblemBox error={list.error} again={() => list.refetch()} />}
      {list.isPending && !list.error && <Loading what="resources" />}
      {l?.unreadable && <Unreadable />}
      {l?.pending && (
        <Notice tone="blue" title="The list is being made">
          <p>This state was stored before its resources were listed. They will be within minutes.</p>
        </Notice>
      )}
      {l?.truncated && <Notice tone="orange" title="The document has more resources than are listed of one state" />}
      {l?.items.length === 0 && !l.unreadable && !l.pending && (
        <Empty title={q || cursor ? "No resource matches" : "No resources"} />
      )}
      {l && l.items.length > 0 && (
        <>
          <div className={ui.panel}>
            {l.items.map((r) => (
              <ResourceRow key={r.address} resource={r} version={version} mayRead={mayRead} />
            ))}
          </div>
          <Pager next={l.next} cursor={cursor ?? ""} back="Previous" on="Next" />
        </>
      )}
    </section>
  );
}

function ResourceRow({ resource: r, version, mayRead }: { resource: Resource; version: number; mayRead: boolean }) {
  const [open, setOpen] = useState(false);
  const head = (
    <span className={`${plan.address} ${css.resource}`}>
      <code>
        <Text limit={300}>{r.address}</Text>
      </code>
      <span className={plan.notes}>
        {r.mode === "data" && "data source · "}
        {r.instances === 1 ? "" : `${r.instances.toLocaleString("en")} instances · `}
        <Text limit={200}>{r.provider}</Text>
      </span>
    </span>
  );
  if (!mayRead) return <div className={`${plan.change} ${css.resourceHead}`}>{head}</div>;
  return (
    <details className={`${plan.change} ${css.foldResource}`} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{head}</summary>
      {open && <ResourceValues resource={r} version={version} />}
    </details>
  );
}

function ResourceValues({ resource: r, version }: { resource: Resource; version: number }) {
  const detail = useQuery({
    queryKey: ["state", r.state, "resource", version, r.address],
    queryFn: ({ signal }) => stateResource(r.state, r.address, signal),
  });
  if (detail.error) return <ProblemBox error={detail.error} again={() => detail.refetch()} />;
  if (!detail.data) return <Loading what="its values" />;
  return (
    <>
      {detail.data.details.map((i) => (
        <Instance key={`${i.address} ${i.deposed ?? ""}`} instance={i} of={r.address} />
      ))}
      {detail.data.more > 0 && (
        <p className={`${plan.more} dim`}>{`${detail.data.more.toLocaleString("en")} more instances are not shown.`}</p>
      )}
    </>
  );
}

function Instance({ instance: i, of }: { instance: ResourceInstance; of: string }) {
  return (
    <div className={css.instance}>
      <div className={ui.row}>
        {i.address !== of && (
          <code className="small">
            <Text limit={300}>{i.address}</Text>
          </code>
        )}
        {i.status && (
          <Badge tone="orange">
            <Text limit={40}>{i.status}</Text>
          </Badge>
        )}
        {i.deposed && <Badge tone="orange">leftover of a replacement</Badge>}
      </div>
      {i.attributes.length > 0 && <Values of={i.attributes} label={`Values of ${i.address}`} />}
      {(i.attributes_more ?? 0) > 0 && (
        <p className="dim small">{`${i.attributes_more?.toLocaleString("en")} more attributes are not shown.`}</p>
      )}
    </div>
  );
}

function Values({ of, label }: { of: StateValue[]; label: string }) {
  return (
    <table className={css.values} aria-label={label}>
      <thead className="hide">
        <tr>
          <th scope="col">Attribute</th>
          <th scope="col">Value</th>
        </tr>
      </thead>
      <tbody>
        {of.map((v) => (
          <tr key={v.path}>
            <th scope="row">
              <code>
                <Text limit={300}>{v.path}</Text>
              </code>
            </th>
            <td>
              <Value of={v} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Value({ of: v }: { of: { value?: unknown; sensitive?: boolean; cut?: boolean } }) {
  if (v.sensitive) return <span className={plan.sensitive}>(sensitive)</span>;
  if (v.value === undefined) return <span className={plan.word}>(none)</span>;
  const lines = typeof v.value === "string" && v.value.includes("\n");
  return (
    <>
      {lines ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <pre className={`${plan.value} ${css.plainValue}`} tabIndex={0}>
          <Text lines>{String(v.value)}</Text>
        </pre>
      ) : (
        <code className={plan.value}>
          <Text limit={600}>{jsonText(v.value)}</Text>
        </code>
      )}
      {v.cut && <span className={plan.notes}> cut: it is longer</span>}
    </>
  );
}

function Outputs({ name, version }: { name: string; version: number }) {
  const outputs = useQuery({
    queryKey: ["state", name, "outputs", version],
    queryFn: ({ signal }) => stateOutputs(name, signal),
  });
  if (outputs.error) return <ProblemBox error={outputs.error} again={() => outputs.refetch()} />;
  if (!outputs.data) return <Loading what="outputs" />;
  const { items, more } = outputs.data;
  if (items.length === 0) return null;
  return (
    <section className={ui.panel} aria-label="Outputs">
      <div className={ui.panelHead}>
        <h2>Outputs</h2>
      </div>
      <div className={css.instance}>
        <Values of={items.map((o: StateOutput) => ({ ...o, path: o.name }))} label="Outputs" />
        {more > 0 && <p className="dim small">{`${more.toLocaleString("en")} more outputs are not shown.`}</p>}
      </div>
    </section>
  );
}
