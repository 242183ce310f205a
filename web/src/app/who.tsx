import { Button, Menu, useMantineColorScheme } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { signOut } from "../api/client";
import { Problem } from "../api/problem";
import { Text } from "../ui/text";
import { whoamiQuery } from "./session";

/** Who is signed in, the colours, and the way out. */
export default function WhoMenu() {
  const who = useQuery(whoamiQuery).data;
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  if (!who) return null;
  const leave = async () => {
    try {
      await signOut();
    } catch (error) {
      if (!(error instanceof Problem && error.status === 401)) throw error;
    }
    await navigate({ to: "/signin" });
    queryClient.clear();
  };
  return (
    <Menu position="bottom-end" width={240}>
      <Menu.Target>
        <Button variant="default" size="xs" maw="min(14rem, 50vw)">
          <Text limit={64}>{who.name}</Text>
        </Button>
      </Menu.Target>
      <Menu.Dropdown aria-label="Account">
        <Menu.Label>
          {who.role || "no role"} in <Text limit={64}>{who.organization}</Text>
        </Menu.Label>
        <Menu.Divider />
        <Menu.Label>Colours</Menu.Label>
        {(["auto", "light", "dark"] as const).map((s) => (
          <Menu.Item
            key={s}
            role="menuitemradio"
            aria-checked={colorScheme === s}
            rightSection={colorScheme === s ? <span aria-hidden="true">✓</span> : null}
            onClick={() => setColorScheme(s)}
          >
            {{ auto: "As the system", light: "Light", dark: "Dark" }[s]}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item onClick={leave}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
