import "./app/mantine";
import "./app/theme.css";
import { createTheme, MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { newRouter } from "./app/router";
import { newQueryClient, safeReturn } from "./app/session";

const theme = createTheme({
  cursorType: "pointer",
  respectReducedMotion: true,
});

const queryClient = newQueryClient(() => {
  const here = router.state.location;
  if (here.pathname === "/signin") return;
  queryClient.removeQueries({ queryKey: ["whoami"] });
  router.navigate({ to: "/signin", search: { to: safeReturn(here.href) } });
});
const router = newRouter(queryClient);

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    {/* Mantine would write its variables and classes as style elements, which the content security policy forbids:
        theme.css has the ones in use. */}
    <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
