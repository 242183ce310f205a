import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Holder, Lock, State } from "../api/words";
import { useMay } from "../app/session";
import { Badge, Notice } from "../ui/badge";
import { CopyLine } from "../ui/copy";
import { Facts, Panel } from "../ui/page";
import { Text } from "../ui/text";
import { When } from "../ui/when";
import { ReleaseDialog } from "./change";
import css from "./states.module.css";
import { HolderName, LockBadge } from "./words";

/** Whether the holder lives, and how that is known. */
export function Alive({ holder }: { holder: Holder }) {
  const say = {
    yes: <Badge tone="green">alive</Badge>,
    no: <Badge tone="red">gone</Badge>,
    unknown: <Badge tone="orange">unknown</Badge>,
  };
  return (
    <>
      {say[holder.alive] ?? say.unknown}
      {holder.evidence && (
        <div className="dim small">
          <Text limit={500}>{holder.evidence}</Text>
        </div>
      )}
      {holder.last_seen && (
        <div className="dim small">
          last seen <When at={holder.last_seen} />
        </div>
      )}
    </>
  );
}

/** What releasing a lock by force means while its holder is, is not, or may be at work. */
export const advice: Record<Holder["alive"], string> = {
  yes: "The holder is working. Releasing the lock now lets two writers at one state; cancel its run instead.",
  no: "The holder is gone, so its lock can be released. What it did not save is not in the state: plan before the next apply.",
  unknown: "Nobody can say whether the holder still works. Ask whoever it names before you release the lock.",
};

function RunLink({ run }: { run: string }) {
  return (
    <Link to="/runs/$run" params={{ run }}>
      <code>{run}</code>
    </Link>
  );
}

/** Who has the state, what for, whether they still live, and the way out. */
export function LockPanel({ state: s }: { state: State }) {
  if (!s.lock) {
    return (
      <Panel title="Lock">
        <p>
          <Badge tone="green">Not locked</Badge>
        </p>
      </Panel>
    );
  }
  return <Locked state={s} lock={s.lock} />;
}

function Locked({ state: s, lock }: { state: State; lock: Lock }) {
  const mayForce = useMay("tf_state:manage");
  const [releasing, setReleasing] = useState(false);
  const h = lock.holder;
  return (
    <Panel title="Lock" actions={<LockBadge lock={lock} />}>
      <div className={css.column}>
        <Facts
          of={[
            ["Held by", <HolderName key="h" holder={h} />],
            ["Holder is", <Alive key="a" holder={h} />],
            ["Since", <When key="w" at={lock.taken_at} />],
            ["Operation", lock.operation ? <Text limit={200}>{lock.operation}</Text> : null],
            ["Who", lock.who ? <Text limit={300}>{lock.who}</Text> : null],
            ["Tool version", lock.version ? <Text limit={100}>{lock.version}</Text> : null],
            ["Info", lock.info ? <Text limit={500}>{lock.info}</Text> : null],
            ["Path", lock.path ? <Text limit={300}>{lock.path}</Text> : null],
            ["Client's clock", lock.created ? <Text limit={100}>{lock.created}</Text> : null],
            ["Run", h.run ? <RunLink key="r" run={h.run} /> : null],
            [
              "Task",
              h.task && h.run ? (
                <Link key="t" to="/runs/$run" params={{ run: h.run }} search={{ tab: "attempts" }}>
                  <code>{h.task}</code>
                </Link>
              ) : null,
            ],
            [
              "Lock id",
              <code key="i">
                <Text limit={300}>{lock.id}</Text>
              </code>,
            ],
          ]}
        />
        <Notice tone={h.alive === "no" ? "blue" : "orange"} title="To release it by force">
          <p>{advice[h.alive] ?? advice.unknown}</p>
          <CopyLine text={lock.unlock} what="the command" />
          {mayForce ? (
            <div>
              <Button variant="default" size="sm" onClick={() => setReleasing(true)}>
                Force unlock …
              </Button>
            </div>
          ) : (
            <p className="small">This needs the permission tf_state:manage, which you do not have.</p>
          )}
        </Notice>
      </div>
      {releasing && <ReleaseDialog state={s} what="lock" close={() => setReleasing(false)} />}
    </Panel>
  );
}

/** That a run keeps the state, and how that ends. */
export function HoldPanel({ state: s }: { state: State }) {
  const mayForce = useMay("tf_state:manage");
  const [ending, setEnding] = useState(false);
  if (!s.hold) return null;
  return (
    <Panel title="Hold" actions={<Badge tone="purple">Held</Badge>}>
      <div className={css.column}>
        <p>
          Kept for one run from its plan to its apply, so that nobody else changes what was planned on. It ends with
          that run.
        </p>
        <Facts
          of={[
            ["Run", <RunLink key="r" run={s.hold.run} />],
            ["Since", <When key="w" at={s.hold.since} />],
            ["Hold id", <code key="i">{s.hold.id}</code>],
          ]}
        />
        {mayForce && (
          <div>
            <Button variant="default" size="sm" onClick={() => setEnding(true)}>
              End the hold …
            </Button>
          </div>
        )}
      </div>
      {ending && <ReleaseDialog state={s} what="hold" close={() => setEnding(false)} />}
    </Panel>
  );
}
