import { useState } from "react";
import { CopyButton } from "../ui/copy";
import { ChoiceFilter } from "../ui/filter";
import { Panel } from "../ui/page";
import { Text } from "../ui/text";
import { backendBlock, type Tool, toolCommands } from "./backend";
import css from "./states.module.css";

const tools: [Tool, string][] = [
  ["tofu", "OpenTofu"],
  ["terraform", "Terraform"],
];

/** How a configuration on somebody's machine comes to use the state. */
export function Snippet({ name }: { name: string }) {
  const [tool, setTool] = useState<Tool>("tofu");
  return (
    <div className={css.column}>
      <div className={css.choice}>
        <ChoiceFilter
          label="Tool"
          value={tool}
          options={tools}
          onChange={(v) => setTool(v === "terraform" ? "terraform" : "tofu")}
        />
      </div>
      <Code
        title="backend.tf"
        text={backendBlock(location.origin, name, tool)}
        what="the backend block"
        note="Beside the configuration. It has no token in it, and can be committed."
      />
      <Code
        title="In the shell"
        text={toolCommands(name, tool)}
        what="the commands"
        note="The token is one of your own, with the permission tf_state:write. Where a state is in another place now, init asks to move it here."
      />
    </div>
  );
}

function Code({ title, text, what, note }: { title: string; text: string; what: string; note: string }) {
  return (
    <Panel title={title} actions={<CopyButton text={text} what={what} />}>
      <div className={css.column}>
        <p className="dim small">{note}</p>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
        <pre className={css.code} tabIndex={0}>
          <Text lines limit={4000}>
            {text}
          </Text>
        </pre>
      </div>
    </Panel>
  );
}
