import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import org.epics.pva.data.PVADouble;
import org.epics.pva.data.PVADoubleArray;
import org.epics.pva.data.PVAData;
import org.epics.pva.data.PVAInt;
import org.epics.pva.data.PVALong;
import org.epics.pva.data.PVAString;
import org.epics.pva.data.PVAStringArray;
import org.epics.pva.data.PVAStructure;
import org.epics.pva.data.nt.PVAAlarm;
import org.epics.pva.data.nt.PVATimeStamp;
import org.epics.pva.server.PVAServer;
import org.epics.pva.server.ServerPV;

/**
 * A pvAccess server of Phoebus's core-pva, in pure Java. Its argument is the prefix of its PVs, its ports are EPICS's
 * variables'. Each line of standard input, {@code NAME VALUE}, updates a PV. It prints "running" to standard error when it
 * listens.
 */
public final class PvaServer {
  private final Map<String, PVAStructure> values = new HashMap<>();
  private final Map<String, ServerPV> pvs = new HashMap<>();
  private final PVAServer server = new PVAServer();
  private final String prefix;

  private PvaServer(String prefix) throws Exception {
    this.prefix = prefix;
    add("number", "epics:nt/NTScalar:1.0", new PVADouble("value", 1.5));
    add("long", "epics:nt/NTScalar:1.0", new PVALong("value", false, 9_007_199_254_740_993L));
    add("text", "epics:nt/NTScalar:1.0", new PVAString("value", "abc"));
    add("array", "epics:nt/NTScalarArray:1.0", new PVADoubleArray("value", 1, 2, 3));
    add("empty", "epics:nt/NTScalarArray:1.0", new PVADoubleArray("value"));
    PVAStringArray choices = new PVAStringArray("choices", "Off", "On", "Fault");
    add("mode", "epics:nt/NTEnum:1.0", new PVAStructure("value", "enum_t", new PVAInt("index", false, 1), choices));
  }

  private void add(String name, String type, PVAData value) {
    PVATimeStamp stamp = new PVATimeStamp("timeStamp", Instant.now());
    PVAStructure structure = new PVAStructure("", type, value, new PVAAlarm("alarm"), stamp);
    values.put(name, structure);
    pvs.put(name, server.createPV(prefix + name, structure));
  }

  private void post(String name, String value) throws Exception {
    PVAStructure structure = values.get(name);
    String field = name.equals("mode") ? "value.index" : "value";
    structure.<PVAData>locate(field).setValue(value);
    PVATimeStamp.set(structure, Instant.now());
    pvs.get(name).update(structure);
  }

  public static void main(String[] arguments) throws Exception {
    PvaServer server = new PvaServer(arguments[0]);
    System.err.println("running");
    Scanner lines = new Scanner(System.in);
    while (lines.hasNextLine()) {
      String[] words = lines.nextLine().split(" ", 2);
      server.post(words[0], words[1].replace("\"", ""));
    }
    System.exit(0);
  }
}
