package oracle;

import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;

/**
 * Runs the {@code main} of one of Kafka's own tools. What the tool prints is where it can be held: after the N-th line
 * with a given text it waits for a line on the standard input, while others stop its broker and start it again.
 */
final class ToolCommand {
    private ToolCommand() {
    }

    static int run(List<String> argv) throws Exception {
        int split = argv.indexOf("--");
        if (split < 0) {
            throw new Args.UsageException("the tool's own arguments follow --");
        }
        Args args = new Args(argv.subList(0, split), Set.of("class", "wait-after", "count"));
        System.setOut(new Waiting(System.out, args.get("wait-after"), args.getInt("count", 1)));
        String[] own = argv.subList(split + 1, argv.size()).toArray(new String[0]);
        try {
            Class.forName(args.get("class")).getMethod("main", String[].class).invoke(null, (Object) own);
        } catch (InvocationTargetException e) {
            e.getCause().printStackTrace();
            return 1;
        }
        return 0;
    }

    private static final class Waiting extends PrintStream {
        private final String text;
        private int left;

        Waiting(PrintStream out, String text, int count) {
            super(out, true, StandardCharsets.UTF_8);
            this.text = text;
            this.left = count;
        }

        @Override
        public void println(String line) {
            super.println(line);
            if (line.contains(text) && --left == 0) {
                awaitLine();
            }
        }

        private static void awaitLine() {
            try {
                int read;
                do {
                    read = System.in.read();
                } while (read != '\n' && read != -1);
                if (read == -1) {
                    throw new IllegalStateException("the standard input ended while the tool waited");
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
