package oracle;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Runs the oracle's command {@code clean} for each line of arguments, separated by tabs, in one warm JVM. */
public final class CleanLoop {
    private CleanLoop() {
    }

    public static void main(String[] argv) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            try {
                CleanCommand.run(Arrays.asList(line.split("\t")));
            } catch (Throwable e) {
                System.out.println(Json.line(Json.object().put("error", e.toString())));
                e.printStackTrace();
            }
            System.out.flush();
        }
        System.exit(0);
    }
}
