import { Button, NativeSelect, Popover, useMantineColorScheme } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { signOut } from "../api/client";
import { isSignedOut } from "../api/problem";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { whoamiQuery } from "./session";

/** Who is signed in, the colours, and the way out. */
export default function Who() {
  const who = useQuery(whoamiQuery).data;
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  if (!who) return null;
  const leave = async () => {
    try {
      await signOut();
    } catch (error) {
      if (!isSignedOut(error)) throw error;
    }
    await navigate({ to: "/signin" });
    queryClient.clear();
  };
  return (
    <Popover
      position="bottom-end"
      width={240}
      trapFocus
      returnFocus
      withinPortal={false}
      transitionProps={{ duration: 80 }}
    >
      <Popover.Target>
        <Button variant="default" size="xs" maw="min(14rem, 50vw)">
          <Text limit={64}>{who.name}</Text>
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Account">
        <div className={ui.column}>
          <p className="dim small">
            {who.role || "no role"} in <Text limit={64}>{who.organization}</Text>
          </p>
          <NativeSelect
            label="Colours"
            value={colorScheme}
            onChange={(e) => setColorScheme(e.currentTarget.value as typeof colorScheme)}
            data={[
              { value: "auto", label: "As the system" },
              { value: "light", label: "Light" },
              { value: "dark", label: "Dark" },
            ]}
          />
          <Button variant="default" onClick={leave}>
            Sign out
          </Button>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}
